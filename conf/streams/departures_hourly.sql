SELECT
  window.start AS hour,
  origin,
  count(*) AS flights,
  count(dep_delay) AS departed,
  count_if(dep_delay > 15) AS late,
  sum(dep_delay) AS delay_minutes,
  max(dep_delay) AS worst_delay
FROM source
GROUP BY window(time_hour, '1 hour'), origin
