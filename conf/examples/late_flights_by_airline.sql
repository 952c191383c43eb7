SELECT window.start AS hour, airline, count(*) AS flights, count_if(dep_delay > 15) AS late
FROM departures
GROUP BY window(scheduled_at, '1 hour'), airline
