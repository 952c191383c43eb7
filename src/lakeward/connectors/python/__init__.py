"""User Python in a Spark application: code of a generation, functions, sinks, packages."""
