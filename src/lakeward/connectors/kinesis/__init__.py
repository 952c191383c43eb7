"""Amazon Kinesis Data Streams as a source."""
