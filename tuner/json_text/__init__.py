"""JSON files of users as text: where each value stands, and edits that keep all else byte for byte."""
