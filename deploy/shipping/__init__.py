"""What `package.py` makes packages of: programs, ONNX Runtime, notices, a list of what is inside; and the packages."""
