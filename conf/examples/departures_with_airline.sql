-- d.* keeps the position columns: `lakeward streams audit` can account for every record.
SELECT d.*, a.name AS airline
FROM departures AS d
LEFT JOIN airlines AS a ON a.carrier = d.carrier
