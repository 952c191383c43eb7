SELECT carrier, count(*) AS scheduled, count_if(dep_delay IS NULL) AS cancelled, sum(distance) AS miles
FROM source
GROUP BY carrier
