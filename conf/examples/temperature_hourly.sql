SELECT
  window.start AS hour,
  round(avg(temp), 2) AS temp,
  min(temp) AS coldest,
  max(temp) AS warmest,
  count(temp) AS measured
FROM source
GROUP BY window(observed_at, '1 hour')
