-- valid_from belongs to a shift and valid_to does not; the last one of an airport has no end yet.
SELECT d.*, s.manager
FROM departures AS d
LEFT JOIN shifts AS s
  ON s.origin = d.origin
  AND d.scheduled_at >= s.valid_from
  AND (d.scheduled_at < s.valid_to OR s.valid_to IS NULL)
