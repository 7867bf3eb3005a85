\echo Use "CREATE EXTENSION leaf" to load this file. \quit
