"""YARN: where a cluster is, the calls to its ResourceManager, and the submission of a driver by spark-submit."""
