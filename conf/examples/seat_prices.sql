SELECT
  window.start AS hour,
  origin,
  sum(seats) AS seats,
  sum(CASE WHEN dep_delay > 60 OR dep_delay IS NULL THEN seats ELSE 0 END) AS wanted,
  round(least(2.0D, 1 + sum(CASE WHEN dep_delay > 60 OR dep_delay IS NULL THEN seats ELSE 0 END) / sum(seats)), 2)
    AS price_factor
FROM (
  SELECT d.origin, d.scheduled_at, d.dep_delay, coalesce(p.seats, 150) AS seats
  FROM departures AS d
  LEFT JOIN planes AS p ON p.tailnum = d.tailnum
)
GROUP BY window(scheduled_at, '1 hour'), origin
