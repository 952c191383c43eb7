"""Operations: what a person asks of a stream, each carried out as one finite step that may be repeated.

One small module an operation. Each writes what is wanted and then only watches, so whoever is killed half way leaves a
stream that goes where it was sent. The waiting reconciles by itself now and then: it works with Airflow down.
"""
