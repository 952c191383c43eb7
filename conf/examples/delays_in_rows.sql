SELECT carrier, flight, scheduled_at, kind, minutes
FROM (
  SELECT carrier, flight, scheduled_at, explode(map('departure', dep_delay, 'arrival', arr_delay)) AS (kind, minutes)
  FROM source
)
WHERE minutes IS NOT NULL
