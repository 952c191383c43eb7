"""The life of one driver process: control loop, leases, progress, lag, failures, logs."""
