-- f.* keeps the position columns: every row can be traced to its record in Kafka.
SELECT
  f.*,
  a.name AS airline,
  p.manufacturer,
  p.model,
  p.seats,
  p.year AS built
FROM flights AS f
LEFT JOIN airlines AS a ON a.carrier = f.carrier
LEFT JOIN planes AS p ON p.tailnum = f.tailnum
