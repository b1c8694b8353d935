"""The world outside of this process: programs, files, secrets of the environment."""
