"""Kubernetes: access to its API, the calls about pods, and the pod of a driver."""
