# Airflow with Lakeward, from the lock file: the same versions as `make demo` runs.
FROM python:3.11.14-slim-bookworm AS build
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /opt/lakeward
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY src ./src
RUN uv sync --frozen --no-dev --no-editable --extra airflow --extra spark --extra quality --extra lineage

FROM python:3.11.14-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless curl tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 50000 --gid 0 --create-home lakeward
COPY --from=build /opt/lakeward/.venv /opt/lakeward/.venv
ENV PATH=/opt/lakeward/.venv/bin:$PATH AIRFLOW_HOME=/home/lakeward/airflow LAKEWARD_PROJECT=/project
USER 50000
# tini reaps: a driver's parent becomes pid 1, and a zombie must not look alive.
ENTRYPOINT ["tini", "--"]
