# Stand-in for apache/kafka:4.1: the project's jars, with the user, the folders, the variables and the scripts of the
# official image, as far as docker-compose.yml uses them.
FROM lakeward-stand-in:bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 1001 appuser \
 && useradd --uid 1000 --gid 1001 --no-create-home appuser \
 && install -d -o appuser -g appuser /var/lib/kafka/data /opt/kafka/config /opt/kafka/logs
COPY libs /opt/kafka/libs
COPY kafka-log4j2.properties /opt/kafka/config/log4j2.properties
COPY kafka-entrypoint.sh /etc/kafka/docker/run
USER appuser
VOLUME /var/lib/kafka/data
CMD ["/etc/kafka/docker/run"]
