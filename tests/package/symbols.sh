#!/usr/bin/env bash
# Prefix of every symbol; the operator library exports what its headers declare.
exec "$1/tools/check_symbols.sh" "$2"
