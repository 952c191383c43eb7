# Stand-in for python:3.11-slim: Debian's Python under the names of the official image, with this machine's CA
# certificates, package index settings and jars.
FROM lakeward-stand-in:bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv python3-pip ca-certificates \
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \
 && ln -s /usr/bin/python3 /usr/local/bin/python
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt SSL_CERT_DIR=/etc/ssl/certs \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    LANG=C.UTF-8
COPY jars /opt/lakeward/jars
