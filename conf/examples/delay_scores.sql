SELECT
  d.*,
  m.newest.version AS model_version,
  round(m.newest.bias + m.newest.by_hour * hour(d.scheduled_at) / 24, 1) AS expected_delay
FROM departures AS d
LEFT JOIN (
  SELECT carrier, max_by(struct(version, bias, by_hour), version) AS newest FROM versions GROUP BY carrier
) AS m ON m.carrier = d.carrier
