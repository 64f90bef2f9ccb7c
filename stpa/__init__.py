"""Choosing a pool configuration for a workload and a machine."""
