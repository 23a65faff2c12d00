"""Tests of kit.hosts.spark."""
