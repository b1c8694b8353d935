"""The viewer: pages on which people watch runs and answer their questions."""
