# Spark drivers and the Spark Connect server: pyspark, the verified jars, Lakeward without Airflow.
FROM python:3.11.14-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /opt/lakeward
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY src ./src
RUN uv sync --frozen --no-dev --no-editable --extra spark --extra quality
ENV LAKEWARD_JARS=/opt/lakeward/jars PATH=/opt/lakeward/.venv/bin:$PATH
RUN python -m lakeward.jars

FROM python:3.11.14-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 50000 --gid 0 --create-home lakeward
COPY --from=build /opt/lakeward /opt/lakeward
COPY spark_jobs /opt/lakeward/spark_jobs
ENV PATH=/opt/lakeward/.venv/bin:$PATH LAKEWARD_JARS=/opt/lakeward/jars
USER 50000
ENTRYPOINT ["tini", "--"]
