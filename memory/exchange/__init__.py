"""Export and import of records: files of JSON lines or Parquet, and rows for TRL's trainers.

`entries` is the stream of records that both file formats hold; `plain` its canonical text; `intake` stores it.
"""
