SELECT window.start AS minute, origin, count(*) AS departures
FROM source
GROUP BY window(scheduled_at, '1 minute'), origin
