#!/bin/bash
# As the official image: every variable KAFKA_X_Y is the setting x.y; the log folder is formatted at the first start.
set -euo pipefail
config=/opt/kafka/config/server.properties
env | awk -F= '/^KAFKA_/ && $1 !~ /^KAFKA_(HEAP_OPTS|OPTS|JVM)/ {
  name = tolower(substr($1, 7)); gsub(/_/, ".", name); value = $0; sub(/^[^=]*=/, "", value); print name "=" value }' > "$config"
run() { exec_java=(java "${KAFKA_HEAP_OPTS:--Xmx512m}" -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp "/opt/kafka/libs/*"); "${exec_java[@]}" "$@"; }
run kafka.tools.StorageTool format --cluster-id="${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" --config "$config" --ignore-formatted
exec java "${KAFKA_HEAP_OPTS:--Xmx512m}" -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp "/opt/kafka/libs/*" kafka.Kafka "$config"
