"""The journal in a PostgreSQL database that any number of machines share."""
