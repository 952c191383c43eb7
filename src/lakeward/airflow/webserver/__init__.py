"""What Airflow's API server loads: the plugin with the page and its API, who may see it, and the links on tasks."""
