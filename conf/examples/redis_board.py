"""A hash in Redis for each airport: how many departures there were, and the last one."""

import redis
from pyspark.sql import functions as F


def upsert(df, batch):
    """Write what the batch changes in one MULTI, with the batch's own key beside it."""
    last = F.max(F.struct("scheduled_at", "carrier", "flight", "dest"))
    board = df.groupBy("origin").agg(F.count("*").alias("departures"), last.alias("last")).collect()
    to = batch.connection
    done = f"{batch.stream}:batch"
    with redis.Redis(to.host, to.port or 6379, username=to.login, password=to.password) as client:
        client.transaction(lambda pipe: change(pipe, board, batch, done), done)  # again, if somebody else moved `done`


def change(pipe, board, batch, done):
    """Queue the changes; none of them, if this batch was written before."""
    checkpoint, _, number = (pipe.get(done) or b"").decode().rpartition("/")
    pipe.multi()
    if checkpoint == batch.key.rpartition("/")[0] and int(number) >= batch.id:
        return
    for row in board:
        name = f"{batch.stream}:{row.origin}"
        flight = f"{row['last'].carrier}{row['last'].flight}"
        pipe.hincrby(name, "departures", row.departures)
        pipe.hset(name, mapping={"flight": flight, "dest": row["last"].dest, "at": str(row["last"].scheduled_at)})
    pipe.set(done, batch.key)
