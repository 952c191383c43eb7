SELECT d.carrier, d.flight, d.origin, d.scheduled_at, w.visib
FROM departures AS d
LEFT JOIN weather AS w
  ON w.origin = d.origin
  AND w.observed_at > d.scheduled_at - INTERVAL 1 HOUR
  AND w.observed_at <= d.scheduled_at
WHERE w.origin IS NULL
