"""cifar100: from cifar100.npz, the binary version or the Python version; 100 fine or 20 coarse classes."""

from collections.abc import Sequence
from pathlib import Path

from motet.data.cifar import arranged, read_binary, read_python
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.npz_form import npz_form
from motet.data.sources.source import Download, Form, Source
from motet.errors import MotetError

_FINE = (
    "apple,aquarium_fish,baby,bear,beaver,bed,bee,beetle,bicycle,bottle,bowl,boy,bridge,bus,butterfly,camel,can,castle,"
    "caterpillar,cattle,chair,chimpanzee,clock,cloud,cockroach,couch,crab,crocodile,cup,dinosaur,dolphin,elephant,"
    "flatfish,forest,fox,girl,hamster,house,kangaroo,keyboard,lamp,lawn_mower,leopard,lion,lizard,lobster,man,"
    "maple_tree,motorcycle,mountain,mouse,mushroom,oak_tree,orange,orchid,otter,palm_tree,pear,pickup_truck,pine_tree,"
    "plain,plate,poppy,porcupine,possum,rabbit,raccoon,ray,road,rocket,rose,sea,seal,shark,shrew,skunk,skyscraper,"
    "snail,snake,spider,squirrel,streetcar,sunflower,sweet_pepper,table,tank,telephone,television,tiger,tractor,train,"
    "trout,tulip,turtle,wardrobe,whale,willow_tree,wolf,woman,worm"
)
_COARSE = (
    "aquatic_mammals,fish,flowers,food_containers,fruit_and_vegetables,household_electrical_devices,"
    "household_furniture,insects,large_carnivores,large_man-made_outdoor_things,large_natural_outdoor_scenes,"
    "large_omnivores_and_herbivores,medium_mammals,non-insect_invertebrates,people,reptiles,small_mammals,trees,"
    "vehicles_1,vehicles_2"
)
FINE, COARSE = tuple(_FINE.split(",")), tuple(_COARSE.split(","))
NAMES = {"fine": FINE, "coarse": COARSE}


def binary(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Two files of rows: the coarse label, the fine label, 1,024 bytes of red, green and blue."""
    variant = ENTRY.variant(settings)
    training, test = read_binary(paths[0], ["train.bin", "test.bin"], 2, 1 if variant == "fine" else 0)
    return arranged([training], [test], NAMES[variant], paths[0])


def python(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Two pickles, read without unpickling."""
    variant = ENTRY.variant(settings)
    training, test = read_python(paths[0], ["train", "test"], f"{variant}_labels")
    return arranged([training], [test], NAMES[variant], paths[0])


_NPZ = npz_form("cifar100.npz", "image", 100, FINE)


def npz(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """A user's own file has one label per image, the fine one."""
    if ENTRY.variant(settings) != "fine":
        raise MotetError(f"{paths[0]}: has no coarse labels; accepted: data.variant fine, or the official files")
    return _NPZ.read(paths, settings)


ENTRY = Source(
    name="cifar100",
    summary="CIFAR-100: 50,000 + 10,000 photographs, 32x32 colour pixels, 100 classes (variant coarse: 20)",
    paper="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    licence="none stated; research use is customary",
    net="cnn4",
    obeys=("variant",),
    forms=(
        Form(_NPZ.files, npz, clients=None),
        Form(("cifar-100-binary",), binary),
        Form(("cifar-100-binary.tar.gz",), binary),
        Form(("cifar-100-python",), python),
        Form(("cifar-100-python.tar.gz",), python),
    ),
    samples=60_000,
    variants=("fine", "coarse"),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
)
