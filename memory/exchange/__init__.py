"""How what is remembered leaves one store and enters another, or a trainer: files of records, rows for TRL."""
