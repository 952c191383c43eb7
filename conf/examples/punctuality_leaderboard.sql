-- Who leads is asked of the table: SELECT *, rank() OVER (ORDER BY on_time_share DESC) FROM ...
SELECT
  carrier,
  count(dep_delay) AS departed,
  count_if(dep_delay <= 15) AS on_time,
  round(count_if(dep_delay <= 15) / count(dep_delay), 4) AS on_time_share,
  max(scheduled_at) AS last_departure
FROM source
WHERE dep_delay IS NOT NULL
GROUP BY carrier
