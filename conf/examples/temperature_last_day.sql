SELECT window.end AS until, origin, round(avg(temp), 2) AS temp, count(temp) AS measured
FROM source
GROUP BY window(observed_at, '24 hours', '5 minutes'), origin
