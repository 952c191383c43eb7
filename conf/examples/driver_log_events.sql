SELECT
  window.start AS begin,
  coalesce(stream, '-') AS stream,
  level,
  event,
  count(*) AS times,
  max(timestamp) AS last
FROM source
GROUP BY window(timestamp, '5 minutes'), coalesce(stream, '-'), level, event
