SELECT
  session_window.start AS first,
  session_window.end AS rests_from,
  tailnum,
  count(*) AS departures,
  sum(distance) AS miles
FROM source
WHERE tailnum IS NOT NULL
GROUP BY session_window(scheduled_at, '12 hours'), tailnum
