"""Helpers of the library. Not part of the public interface."""
