"""The console: a page that shows and operates the service in a browser. This folder holds its files."""
