SELECT d.carrier, d.flight, d.origin, d.scheduled_at, d.dep_delay, w.temp, w.visib, w.wind_speed
FROM departures AS d
JOIN weather AS w
  ON w.origin = d.origin
  AND w.observed_at > d.scheduled_at - INTERVAL 1 HOUR
  AND w.observed_at <= d.scheduled_at
