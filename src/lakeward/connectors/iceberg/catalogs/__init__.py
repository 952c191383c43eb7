"""The kinds of Iceberg catalogs: for each one its properties in Spark and in PyIceberg, and PyIceberg's client.

`iceberg.catalog` chooses the kind.
"""
