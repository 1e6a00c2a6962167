"""Datasets of images, read from files of their original formats."""

from bireme.vision.datasets.cifar import Cifar10, Cifar100
from bireme.vision.datasets.flowers import Flowers
from bireme.vision.datasets.folder import DatasetFolder, ImageFolder
from bireme.vision.datasets.mnist import MNIST, FashionMNIST
from bireme.vision.datasets.voc2012 import VOC2012

__all__ = ["Cifar10", "Cifar100", "DatasetFolder", "FashionMNIST", "Flowers", "ImageFolder", "MNIST", "VOC2012"]
