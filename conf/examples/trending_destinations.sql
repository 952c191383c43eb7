SELECT window.end AS until, dest, count(*) AS departures
FROM source
GROUP BY window(scheduled_at, '1 hour', '15 minutes'), dest
