SELECT window.end AS until, origin, count(*) AS departures
FROM source
GROUP BY window(scheduled_at, '1 hour', '5 minutes'), origin
