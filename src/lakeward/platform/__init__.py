"""What every other package may use: addresses of the deployment, ports, private files, errors, text for people."""
