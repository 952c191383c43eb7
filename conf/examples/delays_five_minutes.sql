-- A cancelled flight has no dep_delay: it counts as scheduled, and neither as late nor in the average.
SELECT
  window.start AS begin,
  carrier,
  count(*) AS scheduled,
  count(dep_delay) AS departed,
  round(avg(dep_delay), 2) AS mean_delay,
  count_if(dep_delay > 15) AS late
FROM source
GROUP BY window(scheduled_at, '5 minutes'), carrier
