"""Tests of kit.spark."""
