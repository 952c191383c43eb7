"""Parts of tasks that several Dags use: operation with approval, command, run of another Dag, time limit."""
