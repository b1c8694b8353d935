"""What lies outside of this process and in it: programs, files, secrets of the environment."""
