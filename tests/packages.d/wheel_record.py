"""Checks that a wheel's RECORD names every file with its digest and size. Usage: wheel_record.py WHEEL"""

import base64
import csv
import hashlib
import sys
import zipfile


def main(path: str) -> None:
    with zipfile.ZipFile(path) as wheel:
        record_name = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(wheel.read(record_name).decode().splitlines())}
        assert set(rows) == set(wheel.namelist()), "RECORD and the files differ"
        for name, (digest, size) in rows.items():
            if name == record_name:
                continue
            content = wheel.read(name)
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={sha256}" and int(size) == len(content), name


if __name__ == "__main__":
    main(sys.argv[1])
